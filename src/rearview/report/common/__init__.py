"""Parts of every page: summary, shell, payload, tables, numbers as text."""
