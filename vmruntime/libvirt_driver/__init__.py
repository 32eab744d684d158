"""The runtime over libvirt: `runtime.LibvirtRuntime`. The only package that imports libvirt."""
