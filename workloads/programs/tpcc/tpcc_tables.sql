-- SPDX-License-Identifier: GPL-3.0-or-later
-- Tables of TPC-C (clause 1.3) and their first content (clause 4.3.3). psql's variables: warehouses, items,
-- customers (of a district; as many orders), seed (0 to 1).

CREATE FUNCTION random_between(low int, high int) RETURNS int LANGUAGE sql VOLATILE AS
$$ SELECT low + floor(random() * (high - low + 1))::int $$;

-- clause 2.1.6
CREATE FUNCTION nurand(a int, low int, high int, c int) RETURNS int LANGUAGE sql VOLATILE AS
$$ SELECT ((random_between(0, a) | random_between(low, high)) + c) % (high - low + 1) + low $$;

-- clause 4.3.2.3
CREATE FUNCTION last_name(number int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT s[number / 100 % 10 + 1] || s[number / 10 % 10 + 1] || s[number % 10 + 1]
   FROM (SELECT ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'] AS s) AS syllables $$;

CREATE FUNCTION random_text(shortest int, longest int) RETURNS text LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    length int := random_between(shortest, longest);
    made text := '';
BEGIN
    WHILE char_length(made) < length LOOP
        made := made || md5(random()::text);
    END LOOP;
    RETURN left(made, length);
END
$$;

-- clause 4.3.3.1: one in ten has ORIGINAL somewhere
CREATE FUNCTION random_data() RETURNS text LANGUAGE plpgsql VOLATILE AS
$$
DECLARE
    made text := random_text(26, 50);
BEGIN
    IF random_between(1, 10) = 1 THEN
        made := overlay(made PLACING 'ORIGINAL' FROM random_between(1, char_length(made) - 7));
    END IF;
    RETURN made;
END
$$;

CREATE FUNCTION random_zip() RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT lpad(random_between(0, 9999)::text, 4, '0') || '11111' $$;

CREATE TABLE warehouse (
    w_id int, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20),
    w_state char(2), w_zip char(9), w_tax numeric(4, 4), w_ytd numeric(12, 2)
);
CREATE TABLE district (
    d_id int, d_w_id int, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), d_city varchar(20),
    d_state char(2), d_zip char(9), d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id int
);
CREATE TABLE customer (
    c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_middle char(2), c_last varchar(16),
    c_street_1 varchar(20), c_street_2 varchar(20), c_city varchar(20), c_state char(2), c_zip char(9),
    c_phone char(16), c_since timestamp, c_credit char(2), c_credit_lim numeric(12, 2), c_discount numeric(4, 4),
    c_balance numeric(12, 2), c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int,
    c_data varchar(500)
);
CREATE TABLE history (
    h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6, 2),
    h_data varchar(24)
);
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int);
CREATE TABLE orders (
    o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int,
    o_all_local int
);
CREATE TABLE order_line (
    ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_supply_w_id int,
    ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6, 2), ol_dist_info char(24)
);
CREATE TABLE item (i_id int, i_im_id int, i_name varchar(24), i_price numeric(5, 2), i_data varchar(50));
CREATE TABLE stock (
    s_i_id int, s_w_id int, s_quantity int,
    s_dist_01 char(24), s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24),
    s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24),
    s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50)
);

SELECT setseed(:seed);

INSERT INTO item
SELECT i, random_between(1, 10000), random_text(14, 24), random_between(100, 10000) / 100.0, random_data()
FROM generate_series(1, :items) AS i;

INSERT INTO warehouse
SELECT w, random_text(6, 10), random_text(10, 20), random_text(10, 20), random_text(10, 20), random_text(2, 2),
    random_zip(), random_between(0, 2000) / 10000.0, :customers * 100
FROM generate_series(1, :warehouses) AS w;

INSERT INTO stock
SELECT i, w, random_between(10, 100),
    random_text(24, 24), random_text(24, 24), random_text(24, 24), random_text(24, 24), random_text(24, 24),
    random_text(24, 24), random_text(24, 24), random_text(24, 24), random_text(24, 24), random_text(24, 24),
    0, 0, 0, random_data()
FROM generate_series(1, :warehouses) AS w, generate_series(1, :items) AS i;

INSERT INTO district
SELECT d, w, random_text(6, 10), random_text(10, 20), random_text(10, 20), random_text(10, 20), random_text(2, 2),
    random_zip(), random_between(0, 2000) / 10000.0, :customers * 10, :customers + 1
FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d;

INSERT INTO customer
SELECT c, d, w, random_text(8, 16), 'OE', last_name(CASE WHEN c <= 1000 THEN c - 1 ELSE nurand(255, 0, 999, 123) END),
    random_text(10, 20), random_text(10, 20), random_text(10, 20), random_text(2, 2), random_zip(),
    lpad(random_between(0, 999999999)::text, 16, '0'), now(),
    CASE WHEN random_between(1, 10) = 1 THEN 'BC' ELSE 'GC' END, 50000, random_between(0, 5000) / 10000.0,
    -10, 10, 1, 0, random_text(300, 500)
FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d, generate_series(1, :customers) AS c;

INSERT INTO history
SELECT c_id, c_d_id, c_w_id, c_d_id, c_w_id, now(), 10, random_text(12, 24) FROM customer;

-- A permutation of a district's customers; the last three in ten orders wait to be delivered.
INSERT INTO orders
SELECT row_number() OVER (PARTITION BY c_w_id, c_d_id ORDER BY at), c_d_id, c_w_id, c_id, now(), NULL, lines, 1
FROM (SELECT c_id, c_d_id, c_w_id, random() AS at, random_between(5, 15) AS lines FROM customer) AS shuffled;
UPDATE orders SET o_carrier_id = random_between(1, 10) WHERE o_id <= :customers * 7 / 10;

INSERT INTO new_order SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_id > :customers * 7 / 10;

INSERT INTO order_line
SELECT o_id, o_d_id, o_w_id, number, random_between(1, :items), o_w_id,
    CASE WHEN o_carrier_id IS NOT NULL THEN o_entry_d END, 5,
    CASE WHEN o_carrier_id IS NOT NULL THEN 0 ELSE random_between(1, 999999) / 100.0 END, random_text(24, 24)
FROM orders, generate_series(1, o_ol_cnt) AS number;

ALTER TABLE item ADD PRIMARY KEY (i_id);
ALTER TABLE warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id);
ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);
CREATE INDEX ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX ON orders (o_w_id, o_d_id, o_c_id, o_id);
