"""The `detect` command: read rows, learn what is ordinary, flag what is not, show and write it."""
