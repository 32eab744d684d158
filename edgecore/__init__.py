"""The node daemon: syncs pods from the hub, runs them through vmruntime, resizes them, reports the truth."""
