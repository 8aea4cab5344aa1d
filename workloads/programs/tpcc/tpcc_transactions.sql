-- SPDX-License-Identifier: GPL-3.0-or-later
-- The five transactions of TPC-C (clauses 2.4 to 2.8), each with what it draws: `seed` (0 to 1) decides it all.
-- `w` is the terminal's warehouse of `warehouses`; `items` and `customers` (of a district) are as laid out.

-- A customer of a district, three times in five by last name (the middle one of those that have it).
CREATE FUNCTION some_customer(w int, d int, customers int) RETURNS int LANGUAGE plpgsql AS
$$
DECLARE
    name text;
    found_ids int[];
BEGIN
    IF random_between(1, 100) > 60 THEN
        RETURN nurand(1023, 1, customers, 259);
    END IF;
    name := last_name(nurand(255, 0, least(customers, 1000) - 1, 223));
    SELECT array_agg(c_id ORDER BY c_first) INTO found_ids
    FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name;
    RETURN found_ids[(array_length(found_ids, 1) + 1) / 2];
END
$$;

CREATE FUNCTION another_warehouse(w int, warehouses int) RETURNS int LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN warehouses = 1 THEN w ELSE (w - 1 + random_between(1, warehouses - 1)) % warehouses + 1 END $$;

CREATE PROCEDURE new_order(w int, warehouses int, items int, customers int, seed float8) LANGUAGE plpgsql AS
$$
DECLARE
    d int; c int; o int; lines int; wrong bool;
    line_items int[]; suppliers int[]; quantity int; price numeric; info char(24);
BEGIN
    PERFORM setseed(seed);
    d := random_between(1, 10);
    c := nurand(1023, 1, customers, 259);
    lines := random_between(5, 15);
    wrong := random_between(1, 100) = 1;  -- one in a hundred is rolled back (clause 2.4.1.4)

    -- Stock is locked in one order, so that no two wait for each other.
    SELECT array_agg(item ORDER BY supplier, item), array_agg(supplier ORDER BY supplier, item)
    INTO line_items, suppliers
    FROM (
        SELECT nurand(8191, 1, items, 7911) AS item,
            CASE WHEN random_between(1, 100) = 1 THEN another_warehouse(w, warehouses) ELSE w END AS supplier
        FROM generate_series(1, lines)
    ) AS drawn;
    IF wrong THEN
        line_items[lines] := items + 1;
    END IF;

    PERFORM w_tax FROM warehouse WHERE w_id = w;
    PERFORM c_discount, c_last, c_credit FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d
    RETURNING d_next_o_id - 1 INTO o;
    INSERT INTO orders VALUES (o, d, w, c, clock_timestamp(), NULL, lines, (w = ALL (suppliers))::int);
    INSERT INTO new_order VALUES (o, d, w);
    FOR number IN 1 .. lines LOOP
        quantity := random_between(1, 10);
        SELECT i_price INTO price FROM item WHERE i_id = line_items[number];
        IF NOT FOUND THEN
            ROLLBACK;
            RETURN;
        END IF;
        UPDATE stock SET
            s_quantity = s_quantity - quantity + CASE WHEN s_quantity >= quantity + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + quantity,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (suppliers[number] <> w)::int
        WHERE s_w_id = suppliers[number] AND s_i_id = line_items[number]
        RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                         s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[d] INTO info;
        INSERT INTO order_line
        VALUES (o, d, w, number, line_items[number], suppliers[number], NULL, quantity, quantity * price, info);
    END LOOP;
END
$$;

CREATE PROCEDURE payment(w int, warehouses int, customers int, seed float8) LANGUAGE plpgsql AS
$$
DECLARE
    d int; c int; amount numeric; customer_w int; customer_d int; names text;
BEGIN
    PERFORM setseed(seed);
    d := random_between(1, 10);
    amount := random_between(100, 500000) / 100.0;
    customer_w := w;
    customer_d := d;
    IF random_between(1, 100) > 85 THEN
        customer_w := another_warehouse(w, warehouses);
        customer_d := random_between(1, 10);
    END IF;
    c := some_customer(customer_w, customer_d, customers);

    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w RETURNING w_name INTO names;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d
    RETURNING names || '    ' || d_name INTO names;
    UPDATE customer SET
        c_balance = c_balance - amount,
        c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC'
            THEN left(concat_ws(' ', c, customer_d, customer_w, d, w, amount) || c_data, 500) ELSE c_data END
    WHERE c_w_id = customer_w AND c_d_id = customer_d AND c_id = c;
    INSERT INTO history VALUES (c, customer_d, customer_w, d, w, clock_timestamp(), amount, names);
END
$$;

CREATE PROCEDURE order_status(w int, customers int, seed float8) LANGUAGE plpgsql AS
$$
DECLARE
    d int; c int; o int;
BEGIN
    PERFORM setseed(seed);
    d := random_between(1, 10);
    c := some_customer(w, d, customers);
    PERFORM c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    SELECT o_id INTO o FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = c ORDER BY o_id DESC LIMIT 1;
    PERFORM ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
END
$$;

CREATE PROCEDURE delivery(w int, seed float8) LANGUAGE plpgsql AS
$$
DECLARE
    o int; c int; carrier int; total numeric; moment timestamp := clock_timestamp();
BEGIN
    PERFORM setseed(seed);
    carrier := random_between(1, 10);
    PERFORM pg_advisory_xact_lock(w);  -- one at a time in a warehouse: no other takes the oldest order
    FOR d IN 1 .. 10 LOOP
        SELECT no_o_id INTO o FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = o;
        UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = w AND o_d_id = d AND o_id = o
        RETURNING o_c_id INTO c;
        WITH delivered AS (
            UPDATE order_line SET ol_delivery_d = moment WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o
            RETURNING ol_amount
        )
        SELECT sum(ol_amount) INTO total FROM delivered;
        UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    END LOOP;
END
$$;

CREATE PROCEDURE stock_level(w int, seed float8) LANGUAGE plpgsql AS
$$
DECLARE
    d int; threshold int; next_o int;
BEGIN
    PERFORM setseed(seed);
    d := random_between(1, 10);
    threshold := random_between(10, 20);
    SELECT d_next_o_id INTO next_o FROM district WHERE d_w_id = w AND d_id = d;
    PERFORM count(DISTINCT s_i_id)
    FROM order_line JOIN stock ON s_w_id = w AND s_i_id = ol_i_id
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next_o - 20 AND ol_o_id < next_o AND s_quantity < threshold;
END
$$;

-- Consistency conditions 1 to 4 (clause 3.3.2): how many warehouses or districts break each.
CREATE VIEW consistency AS
WITH waiting AS (
    SELECT no_w_id AS w, no_d_id AS d, min(no_o_id) AS first, max(no_o_id) AS last, count(*) AS rows
    FROM new_order GROUP BY 1, 2
), ordered AS (
    SELECT o_w_id AS w, o_d_id AS d, max(o_id) AS last, sum(o_ol_cnt) AS lines FROM orders GROUP BY 1, 2
), lines AS (
    SELECT ol_w_id AS w, ol_d_id AS d, count(*) AS rows FROM order_line GROUP BY 1, 2
)
SELECT 1 AS condition, count(*) AS broken
FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)
UNION ALL
SELECT 2, count(*)
FROM district JOIN ordered ON w = d_w_id AND d = d_id LEFT JOIN waiting USING (w, d)
WHERE d_next_o_id - 1 <> ordered.last OR waiting.last <> ordered.last
UNION ALL
SELECT 3, count(*) FROM waiting WHERE last - first + 1 <> rows
UNION ALL
SELECT 4, count(*) FROM ordered LEFT JOIN lines USING (w, d) WHERE ordered.lines IS DISTINCT FROM lines.rows
ORDER BY 1;
