// The official TypeScript SDK in its automatic mode: what it hears of files over `subscriptions/listen`, as one line of JSON.
import { createRequire } from "node:module";

const [command, packages] = process.argv.slice(2);
const installed = createRequire(`${packages}/`);
const { Client } = installed("@modelcontextprotocol/client");
const { StdioClientTransport } = installed("@modelcontextprotocol/client/stdio");

const WATCHED = "workspace:///out/a%20b.csv";
const heard = [];
let wake = () => {};
const note = (text) => {
    heard.push(text);
    wake();
};
// The next thing that is heard, of all streams.
const next = async () => {
    while (heard.length === 0) await new Promise((resolve) => (wake = resolve));
    return heard.shift();
};

const client = new Client({ name: "listen", version: "1" }, { versionNegotiation: { mode: "auto" } });
client.setNotificationHandler("notifications/resources/list_changed", () => note("list"));
client.setNotificationHandler("notifications/resources/updated", ({ params }) => note(params.uri));
await client.connect(new StdioClientTransport({ command, env: process.env }));
const write = async (name, text) => {
    const code = `import os\nos.makedirs('out', exist_ok=True)\nopen('${name}', 'w').write('${text}')`;
    const result = await client.callTool({ name: "run_python", arguments: { code } });
    if (result.isError) throw new Error(JSON.stringify(result));
};

const said = { version: client.getNegotiatedProtocolVersion() };
const every = await client.listen({ resourcesListChanged: true, toolsListChanged: true });
const one = await client.listen({ resourceSubscriptions: [WATCHED, "file:///etc/passwd"] });
said.honored = [every.honoredFilter, one.honoredFilter];
await write("other", "x");
said.every = [await next()];
await write("out/a b.csv", "x,y");
said.one = [await next(), await next()].sort();
await one.close();
await write("out/a b.csv", "z");
said["every again"] = [await next()];
await every.close();
await write("other", "y");
said["left of both"] = heard;
const { resources } = await client.listResources();
said.listed = resources.map(({ uri }) => uri).filter((uri) => uri.startsWith("workspace:"));
said.read = (await client.readResource({ uri: WATCHED })).contents[0].text;
console.log(JSON.stringify(said));
await client.close();
