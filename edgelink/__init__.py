"""The synchronisation protocol between hub and nodes over MQTT. Start at `edgelink.api`; docs/adr/0002 has the design."""
