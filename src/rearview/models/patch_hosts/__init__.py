"""Networks whose tokens are patches: pieces of one channel's look-back."""
