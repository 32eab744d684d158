"""The VM runtime: `vmruntime.api` is the interface, `libvirt_driver` and `fake` implement it."""
