"""Client: what a browser does with registrations, in memory."""
