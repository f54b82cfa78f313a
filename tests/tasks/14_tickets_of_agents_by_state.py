# task: How many tickets of each state has each agent?
# servers: desk
# prints: ann {'closed': 5, 'open': 4, 'pending': 8}
# prints: bo {'closed': 5, 'open': 4, 'pending': 7}
# prints: cy {'closed': 1, 'open': 5, 'pending': 1}
# prints: dee {'closed': 2, 'open': 2, 'pending': 3}
# prints: eli {'closed': 3, 'open': 6, 'pending': 7}

import pandas as pd

tickets, page, pages = [], 1, 1
while page <= pages:
    answer = runtime.call_tool_sync("desk", "list_tickets", {"page": page})
    tickets += answer["tickets"]
    page, pages = page + 1, answer["pages"]
table = pd.crosstab(pd.DataFrame(tickets).dropna(subset="agent").agent, pd.DataFrame(tickets).state)
for agent, row in table.iterrows():
    print(agent, row.to_dict())
