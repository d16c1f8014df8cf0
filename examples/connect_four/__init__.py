"""An AlphaZero-style pipeline of several processes that learns to play Connect Four."""
