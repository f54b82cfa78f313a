# task: Write the error lines of all logs into out/errors/SERVICE.log, a file for each service.
# servers: files
# prints: {'billing': 12, 'cart': 14, 'mail': 25, 'search': 9, 'stock': 15, 'web': 15}
# changes: files

errors = {}
for n in range(1, 6):
    text = runtime.call_tool_sync("files", "read_text_file", {"path": f"/world/files/logs/app-{n}.log"})["content"]
    for line in text.splitlines():
        _, level, service, *_ = line.split()
        if level == "ERROR":
            errors.setdefault(service, []).append(line)
runtime.call_tool_sync("files", "create_directory", {"path": "/world/files/out/errors"})
for service, lines in errors.items():
    content = "\n".join(lines) + "\n"
    runtime.call_tool_sync(
        "files", "write_file", {"path": f"/world/files/out/errors/{service}.log", "content": content}
    )
print({service: len(lines) for service, lines in sorted(errors.items())})
