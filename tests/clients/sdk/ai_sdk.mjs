// The MCP client of the AI SDK: takes the tools as its models get them, and executes the one that is there.
import { createMCPClient } from "@ai-sdk/mcp";
import { StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";

const [command, , , given] = process.argv.slice(2);
const client = await createMCPClient({ transport: new StdioMCPTransport({ command }) });
const { run_python: tool } = await client.tools();
for (const call of JSON.parse(given)) {
  const result = await tool.execute(call, { toolCallId: "call_1", messages: [] });
  console.log(result.content[0].text);
}
await client.close();
