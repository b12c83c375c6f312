"""The ground of every stage: errors, files, model folders, the registry of named parts."""
