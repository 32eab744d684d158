"""Kubernetes-shaped types, quantities, validation and resize semantics: pure. `kubeapi.server` serves them over a store."""
