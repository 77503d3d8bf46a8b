"""What hardware can do: data sheets, and this machine as it was measured."""
