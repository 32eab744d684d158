BEGIN TRANSACTION;
CREATE TABLE journal (
	id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	subject VARCHAR NOT NULL, 
	action VARCHAR NOT NULL, 
	detail BLOB NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "journal" VALUES('j1',1,'u1','resize',X'7B7D');
CREATE TABLE log (
	revision INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	namespace VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	uid VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	created BIGINT NOT NULL, 
	previous BIGINT NOT NULL, 
	value BLOB NOT NULL, 
	PRIMARY KEY (revision)
);
INSERT INTO "log" VALUES(1,'pods','default','web','u1','put',1,0,X'7B2261223A317D');
INSERT INTO "log" VALUES(2,'pods','default','db','u2','put',2,0,X'7B2262223A22C3A9227D');
INSERT INTO "log" VALUES(3,'nodes','','box','u3','put',3,0,X'7B7D');
INSERT INTO "log" VALUES(4,'pods','default','web','u1','put',1,1,X'7B2261223A327D');
INSERT INTO "log" VALUES(5,'pods','default','db','u2','delete',2,2,X'7B2262223A22C3A9227D');
INSERT INTO "log" VALUES(6,'pods','default','db','u4','put',6,0,X'00FF206E6F742074657874');
INSERT INTO "log" VALUES(7,'pods','default','web','u1','put',1,4,X'7B2261223A337D');
CREATE TABLE objects (
	kind VARCHAR NOT NULL, 
	namespace VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	uid VARCHAR NOT NULL, 
	revision BIGINT NOT NULL, 
	created BIGINT NOT NULL, 
	value BLOB NOT NULL, 
	PRIMARY KEY (kind, namespace, name)
);
INSERT INTO "objects" VALUES('pods','default','web','u1',7,1,X'7B2261223A337D');
INSERT INTO "objects" VALUES('nodes','','box','u3',3,3,X'7B7D');
INSERT INTO "objects" VALUES('pods','default','db','u4',6,6,X'00FF206E6F742074657874');
CREATE TABLE outbox (
	number INTEGER NOT NULL, 
	lane VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	value BLOB NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "outbox" VALUES(2,'log','e1',X'6669727374');
INSERT INTO "outbox" VALUES(3,'log','e2',X'7365636F6E64');
INSERT INTO "outbox" VALUES(4,'level','pods/u1',X'7B2273223A327D');
CREATE TABLE scalars (
	name VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY (name)
)
 WITHOUT ROWID

;
INSERT INTO "scalars" VALUES('compacted','3');
INSERT INTO "scalars" VALUES('cursor','{"hub":"h","revision":7}');
INSERT INTO "scalars" VALUES('outbox_dropped','0');
INSERT INTO "scalars" VALUES('outbox_high','4');
INSERT INTO "scalars" VALUES('revision','7');
INSERT INTO "scalars" VALUES('schema_version','1');
INSERT INTO "scalars" VALUES('store_id','store-of-version-1');
CREATE INDEX log_by_key ON log (kind, namespace, name, revision);
CREATE INDEX outbox_by_subject ON outbox (lane, subject);
COMMIT;
