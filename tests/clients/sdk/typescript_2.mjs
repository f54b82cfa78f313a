// The official TypeScript SDK of version 2: lists the tools, and calls the one that is there.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [belljar, , , given] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.BELLJAR_TOKEN}` };
const transport = belljar.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(belljar), { requestInit: { headers } })
  : new StdioClientTransport({ command: belljar });
// Unless it is told otherwise, it makes a handshake.
const mode = process.env.PROTOCOL ? { pin: process.env.PROTOCOL } : "legacy";
const client = new Client({ name: "typescript-sdk-2", version: "1" }, { versionNegotiation: { mode } });
await client.connect(transport);
const { tools: [tool] } = await client.listTools();
let session = {};
for (const call of JSON.parse(given)) {
  const result = await client.callTool({ name: tool.name, arguments: { ...call, ...session } });
  const text = result.content.map((part) => part.text).join("\n");
  console.log(text);
  const named = /pass session="(\w+)"/.exec(text);
  if (named) session = { session: named[1] };
}
// Over stdio there is no session to end.
await transport.terminateSession?.();
await client.close();
