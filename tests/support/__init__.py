"""What tests share: awkward forests, slow exact answers, a command line, a browser."""
