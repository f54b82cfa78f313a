# task: Ask three servers for twelve things at once; how many come, and which fail?
# servers: git, desk, time
# prints: 9 ['git', 'desk', 'time']

import asyncio

wanted = [
    ("git", "git_show", {"repo_path": "/world/repo", "revision": name}) for name in ["main", "release-1", "release-9"]
]
wanted += [("desk", "get_ticket", {"id": id}) for id in ["T-110", "T-111", "T-112", "T-999", "T-113"]]
for zone in ["UTC", "Asia/Tokyo", "No/Where", "Asia/Dubai"]:
    wanted.append(("time", "convert_time", {"source_timezone": zone, "time": "12:00", "target_timezone": "UTC"}))
answers = await asyncio.gather(*(runtime.call_tool(*call) for call in wanted), return_exceptions=True)
failed = [call[0] for call, answer in zip(wanted, answers) if isinstance(answer, runtime.ToolError)]
came = [answer for answer in answers if not isinstance(answer, BaseException)]
print(len(came), failed)
