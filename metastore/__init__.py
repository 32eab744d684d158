"""A revisioned object store on SQLAlchemy Core. Import from `metastore.api` (types) and `metastore.sql` (the store)."""
