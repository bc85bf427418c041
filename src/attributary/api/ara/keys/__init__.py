"""Keys: each node of a tree ↔ 128 bits, and what each impression's class contributes."""
