"""Kubernetes-shaped types, quantities, validation, resize semantics: pure. `kubeapi.server` serves them."""
