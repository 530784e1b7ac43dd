"""The SQLite file: connections, migrations, backups, and reads that can be cancelled."""
