"""Attribution APIs: one seam, and one folder for each API behind it."""
