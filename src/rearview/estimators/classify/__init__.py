"""From labelled cases to the classes of new ones."""
