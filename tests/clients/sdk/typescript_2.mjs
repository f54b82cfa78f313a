// The official TypeScript SDK of version 2: lists the tools, and calls the one that is there.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [command, , , given] = process.argv.slice(2);
const client = new Client({ name: "typescript-sdk-2", version: "1" });
await client.connect(new StdioClientTransport({ command }));
const { tools: [tool] } = await client.listTools();
for (const call of JSON.parse(given)) {
  const result = await client.callTool({ name: tool.name, arguments: call });
  console.log(result.content[0].text);
}
await client.close();
