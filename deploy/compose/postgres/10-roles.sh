#!/bin/sh
# When the database is made: it belongs to `inferwatch`, and `grafana` may read what `inferwatch` puts there.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
  --set inferwatch="$(cat /run/secrets/inferwatch_password)" --set grafana="$(cat /run/secrets/grafana_password)" <<'SQL'
CREATE ROLE inferwatch LOGIN PASSWORD :'inferwatch';
CREATE ROLE grafana LOGIN PASSWORD :'grafana';
CREATE DATABASE inferwatch OWNER inferwatch ENCODING 'UTF8' TEMPLATE template0;
ALTER ROLE grafana SET default_transaction_read_only = on;
ALTER ROLE grafana SET statement_timeout = '60s';
\connect inferwatch
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER SCHEMA public OWNER TO inferwatch;
GRANT USAGE ON SCHEMA public TO grafana;
ALTER DEFAULT PRIVILEGES FOR ROLE inferwatch IN SCHEMA public GRANT SELECT ON TABLES TO grafana;
SQL
