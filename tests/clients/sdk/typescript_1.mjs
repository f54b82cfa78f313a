// The official TypeScript SDK of version 1: lists the tools, and calls the one that is there.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, , , given] = process.argv.slice(2);
const client = new Client({ name: "typescript-sdk-1", version: "1" });
await client.connect(new StdioClientTransport({ command }));
const { tools: [tool] } = await client.listTools();
for (const call of JSON.parse(given)) {
  const result = await client.callTool({ name: tool.name, arguments: call });
  console.log(result.content[0].text);
}
await client.close();
