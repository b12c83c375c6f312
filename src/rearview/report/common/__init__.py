"""Parts of every page: shell, payload, sections, tables, numbers as text."""
