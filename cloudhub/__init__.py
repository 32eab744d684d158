"""The hub daemon: Kubernetes API, scheduling, node lifecycle, and edgelink to the fleet."""
