-- A receipt exists only if a client of the member sent it. Before, every member got one with the membership.
UPDATE members SET delivered_seq = 0 WHERE delivered_seq = joined_seq;
UPDATE members SET read_seq = 0 WHERE read_seq = joined_seq;

-- Increases with every change of title, open, history or priority.
ALTER TABLE conversations ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
