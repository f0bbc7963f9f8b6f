"""The auction site that the lab's applications serve: PHP pages, a database schema, and its data."""
