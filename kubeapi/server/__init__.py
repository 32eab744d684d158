"""The REST/watch server over a metastore: used by the hub and, restricted, by a node."""
