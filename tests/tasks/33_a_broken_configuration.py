# task: On which port does each service listen? Name the configuration files that cannot be read.
# servers: files
# prints: {'billing': 8033, 'cart': 8011, 'mail': 8044, 'search': 8022, 'stock': 8055, 'web': 8000} ['broken.json']

import json

found = runtime.call_tool_sync("files", "search_files", {"path": "/world/files/config", "pattern": "*.json"})["content"]
ports, broken = {}, []
for path in found.splitlines():
    text = runtime.call_tool_sync("files", "read_text_file", {"path": path})["content"]
    try:
        read = json.loads(text)
        ports[read["service"]] = read["port"]
    except json.JSONDecodeError:
        broken.append(path.rpartition("/")[2])
print(dict(sorted(ports.items())), broken)
