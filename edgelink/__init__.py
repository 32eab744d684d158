"""The synchronisation protocol between hub and nodes over MQTT. Start at `edgelink.api`; design: docs/adr/0002."""
