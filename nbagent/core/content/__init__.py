"""Images and documents in a conversation: content parts, and the files behind them."""
