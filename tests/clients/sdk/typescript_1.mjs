// The official TypeScript SDK of version 1: lists the tools, and calls the one that is there.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [belljar, , , given] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.BELLJAR_TOKEN}` };
const transport = belljar.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(belljar), { requestInit: { headers } })
  : new StdioClientTransport({ command: belljar });
const client = new Client({ name: "typescript-sdk-1", version: "1" });
await client.connect(transport);
const { tools: [tool] } = await client.listTools();
for (const call of JSON.parse(given)) {
  const result = await client.callTool({ name: tool.name, arguments: call });
  console.log(result.content[0].text);
}
// Over stdio there is no session to end.
await transport.terminateSession?.();
await client.close();
