"""The targets that come with Ironworks: implementations of `explorer.devices.target.Target`."""
