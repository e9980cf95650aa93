-- 1 if the block was made by another service, which may lift it.
ALTER TABLE users ADD COLUMN block_adopted BIGINT NOT NULL DEFAULT 0;
