# task: Have the lab add n and n squared for n below 40, all at once, and add up what comes.
# servers: lab
# prints: 21320

import asyncio
import re

answers = await asyncio.gather(*(mcp_lab.get_sum(a=n, b=n * n) for n in range(40)))
print(sum(int(re.search(r"is (\d+)", answer)[1]) for answer in answers))
