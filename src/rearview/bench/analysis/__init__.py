"""Views of rows: leaderboards, ranks with significance, budgets."""
