"""Images in a conversation: content parts, and the image files behind them."""
