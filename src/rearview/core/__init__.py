"""What every stage stands on: errors, files, model folders, the registry of named parts."""
