CREATE TABLE journal (
	id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	subject VARCHAR NOT NULL, 
	action VARCHAR NOT NULL, 
	detail BYTEA NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE log (
	revision BIGINT NOT NULL, 
	kind VARCHAR COLLATE "C" NOT NULL, 
	namespace VARCHAR COLLATE "C" NOT NULL, 
	name VARCHAR COLLATE "C" NOT NULL, 
	uid VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	created BIGINT NOT NULL, 
	previous BIGINT NOT NULL, 
	value BYTEA NOT NULL, 
	PRIMARY KEY (revision)
);
CREATE INDEX log_by_key ON log (kind, namespace, name, revision);
CREATE TABLE objects (
	kind VARCHAR COLLATE "C" NOT NULL, 
	namespace VARCHAR COLLATE "C" NOT NULL, 
	name VARCHAR COLLATE "C" NOT NULL, 
	uid VARCHAR NOT NULL, 
	revision BIGINT NOT NULL, 
	created BIGINT NOT NULL, 
	value BYTEA NOT NULL, 
	PRIMARY KEY (kind, namespace, name)
);
CREATE TABLE outbox (
	number BIGINT NOT NULL, 
	lane VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	value BYTEA NOT NULL, 
	PRIMARY KEY (number)
);
CREATE INDEX outbox_by_subject ON outbox (lane, subject);
CREATE TABLE scalars (
	name VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "journal" VALUES('j1',1,'u1','resize','\x7B7D');
INSERT INTO "log" VALUES(1,'pods','default','web','u1','put',1,0,'\x7B2261223A317D');
INSERT INTO "log" VALUES(2,'pods','default','db','u2','put',2,0,'\x7B2262223A22C3A9227D');
INSERT INTO "log" VALUES(3,'nodes','','box','u3','put',3,0,'\x7B7D');
INSERT INTO "log" VALUES(4,'pods','default','web','u1','put',1,1,'\x7B2261223A327D');
INSERT INTO "log" VALUES(5,'pods','default','db','u2','delete',2,2,'\x7B2262223A22C3A9227D');
INSERT INTO "log" VALUES(6,'pods','default','db','u4','put',6,0,'\x00FF206E6F742074657874');
INSERT INTO "log" VALUES(7,'pods','default','web','u1','put',1,4,'\x7B2261223A337D');
INSERT INTO "objects" VALUES('pods','default','web','u1',7,1,'\x7B2261223A337D');
INSERT INTO "objects" VALUES('nodes','','box','u3',3,3,'\x7B7D');
INSERT INTO "objects" VALUES('pods','default','db','u4',6,6,'\x00FF206E6F742074657874');
INSERT INTO "outbox" VALUES(2,'log','e1','\x6669727374');
INSERT INTO "outbox" VALUES(3,'log','e2','\x7365636F6E64');
INSERT INTO "outbox" VALUES(4,'level','pods/u1','\x7B2273223A327D');
INSERT INTO "scalars" VALUES('compacted','3');
INSERT INTO "scalars" VALUES('cursor','{"hub":"h","revision":7}');
INSERT INTO "scalars" VALUES('outbox_dropped','0');
INSERT INTO "scalars" VALUES('outbox_high','4');
INSERT INTO "scalars" VALUES('revision','7');
INSERT INTO "scalars" VALUES('schema_version','1');
INSERT INTO "scalars" VALUES('store_id','store-of-version-1');
