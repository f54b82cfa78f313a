"""How values look in a reply: text, tables, and images."""
