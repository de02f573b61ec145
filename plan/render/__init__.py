"""Results as people and programs read them: terminal tables, JSON documents, charts."""
