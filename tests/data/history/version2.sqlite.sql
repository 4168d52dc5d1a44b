-- after version1.sqlite.sql
CREATE TABLE tokens (name TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created_ns BIGINT NOT NULL);
CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE, store TEXT NOT NULL, state TEXT NOT NULL, device TEXT NOT NULL, request TEXT NOT NULL, message TEXT, attempts INTEGER NOT NULL, created_ns BIGINT NOT NULL, started_ns BIGINT, ended_ns BIGINT);
CREATE INDEX jobs_state ON jobs (store, state, id);
UPDATE inferprof_schema SET version = 2;
