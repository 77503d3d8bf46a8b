"""User-defined policies, registered under a name by system."""
