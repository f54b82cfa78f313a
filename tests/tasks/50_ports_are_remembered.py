# task: Remember for each service that its configuration is readable on which port it listens: a relation "listens on".
# servers: files, memory
# prints: 6
# changes: memory
# changes: relations

import json

relations, ports = [], []
for service in ["web", "cart", "search", "billing", "mail", "stock", "broken"]:
    text = runtime.call_tool_sync("files", "read_text_file", {"path": f"/world/files/config/{service}.json"})["content"]
    try:
        port = f"port {json.loads(text)['port']}"
    except json.JSONDecodeError:
        continue
    ports.append({"name": port, "entityType": "port", "observations": []})
    relations.append({"from": service, "to": port, "relationType": "listens on"})
runtime.call_tool_sync("memory", "create_entities", {"entities": ports})
made = runtime.call_tool_sync("memory", "create_relations", {"relations": relations})
print(len(made["relations"]))
