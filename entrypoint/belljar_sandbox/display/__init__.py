"""Values in replies: text, tables, and images."""
