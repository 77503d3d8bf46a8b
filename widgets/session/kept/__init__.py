"""What of a session is kept in links and files, and done again from there."""
